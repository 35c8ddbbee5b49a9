"""Draws the pictures of this example: a departure board, a receipt and a street sign.

Run it to draw them anew: python examples/speak/draw_pictures.py
"""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

BOARD = [
    ("TIME", "DESTINATION", "PLATFORM"),
    ("09:15", "Amsterdam", "4"),
    ("09:40", "Vienna", "7"),
    ("10:05", "Lisbon", "2"),
]
RECEIPT = [("Green tea", "3.20"), ("Almond cake", "4.50"), ("Orange juice", "3.80"), ("Total", "11.50")]


def font(size: int) -> Font:
    """Pillow's own typeface: the same picture on every machine."""
    return ImageFont.load_default(size)


def departures() -> Image.Image:
    """White on dark blue, as stations have it. 960 x 420 pixels."""
    picture = Image.new("RGB", (960, 420), "#0b1f3a")
    draw = ImageDraw.Draw(picture)
    draw.text((40, 28), "DEPARTURES", font=font(52), fill="#ffd447")
    for row, (time, destination, platform) in enumerate(BOARD):
        y, colour = 120 + row * 70, "#8fb4e8" if row == 0 else "white"
        for x, cell in ((40, time), (240, destination), (700, platform)):
            draw.text((x, y), cell, font=font(30 if row == 0 else 42), fill=colour)
    return picture


def receipt() -> Image.Image:
    """Black on white, prices in a column. 520 x 460 pixels."""
    picture = Image.new("RGB", (520, 460), "white")
    draw = ImageDraw.Draw(picture)
    draw.text((120, 24), "CORNER CAFE", font=font(40), fill="black")
    for row, (item, price) in enumerate(RECEIPT):
        y = 120 + row * 76
        draw.text((40, y), item, font=font(36), fill="black")
        draw.text((390, y), price, font=font(36), fill="black")
    return picture


def street_sign() -> Image.Image:
    """White on green. 720 x 240 pixels."""
    picture = Image.new("RGB", (720, 240), "#1c6b3c")
    draw = ImageDraw.Draw(picture)
    draw.rounded_rectangle((12, 12, 708, 228), radius=24, outline="white", width=6)
    draw.text((60, 44), "HARBOUR STREET", font=font(64), fill="white")
    draw.text((60, 140), "City centre 2 km", font=font(48), fill="white")
    return picture


PICTURES = {"departures.png": departures, "receipt.png": receipt, "street_sign.png": street_sign}


def main() -> None:
    """Writes every picture beside this file."""
    for name, draw in PICTURES.items():
        draw().save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
